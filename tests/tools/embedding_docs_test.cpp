// docs/embedding.md says how many kernels its example of a list makes.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "tools/sweep.h"

namespace jfa::test {
namespace {

TEST_CASE("the list of docs/embedding.md makes as many kernels as the page says") {
  std::ifstream file("docs/embedding.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::string fence = "```json\n";
  const std::size_t begin = page.find(fence);
  REQUIRE(begin != std::string::npos);
  const std::string list =
      page.substr(begin + fence.size(), page.find("```\n", begin + 1) - begin - fence.size());

  const auto kernels = [&](const std::vector<std::string>& targets) {
    return tools::expand(tools::parse_sweep_file("embedding.md", list, targets).value()).value().size();
  };
  CHECK(kernels({"sm_100f"}) == 8 + 4);
  CHECK(kernels({"sm_100f", "sm_90a"}) == 24);
  CHECK(page.find("is 8 kernels (40 and 64 share theirs) and 4") != std::string::npos);
  CHECK(page.find("with `--target sm_100f sm_90a`, 24 kernels") != std::string::npos);
}

}  // namespace
}  // namespace jfa::test
