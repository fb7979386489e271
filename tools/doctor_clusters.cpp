#include "tools/doctor_clusters.h"

#include <fmt/format.h>

#include "generator/plan.h"
#include "runtime/clusters.h"

namespace jfa::tools {

void examine_clusters(const DriverTable& driver, CUdevice device, GpuFacts& gpu) {
  if (!gpu.target) return;
  KernelSpec spec;
  spec.pass = Pass::backward;
  spec.target = *gpu.target;
  const Result<KernelPlan> plan = jfa::plan(spec);
  if (!plan || !plan->backward().two_cta) return;
  const TwoCtaPlan& two_cta = *plan->backward().two_cta;
  const Result<int> clusters = placeable_clusters(driver, device, two_cta.main);
  if (!clusters) {
    gpu.cluster_message = fmt::format("clusters of two CTAs: not known ({})", clusters.status().message());
    return;
  }
  gpu.clusters = *clusters;
  gpu.cluster_message =
      *clusters > 0
          ? fmt::format("clusters of two CTAs: {} at a time", *clusters)
          : fmt::format(
                "clusters of two CTAs cannot be placed: backwards of {} to {} keys a sequence, or rows of a "
                "shared query, take more than one pass",
                plan->key_tile + 1, two_cta.key_rows);
}

}  // namespace jfa::tools
