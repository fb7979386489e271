// The smallest program that uses jfa: includes the public header only and links jfa::jfa only.
#include <jfa/attention.h>

#include <cstdio>

int main() {
  jfa::Configuration configuration;
  if (jfa::Status status = jfa::supported(configuration); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  configuration.head_dim = 12;
  jfa::Status refused = jfa::supported(configuration);
  std::printf("head_dim 12: %s\n", refused.message().c_str());
  jfa::Result<jfa::Device> device = jfa::Device::open("sim:sm_100a");
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", device.status().message().c_str());
    return 1;
  }
  std::printf("%s builds kernels for %s\n", device->name().c_str(), device->target().c_str());
  return refused.ok() ? 1 : 0;
}
