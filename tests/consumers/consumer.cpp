// The smallest program that uses jfa: includes the public header only and links jfa::jfa only.
//
//   consumer [--without-simulator]
#include <jfa/attention.h>

#include <cstdio>

int main(int argc, char**) {
  const bool simulator = argc == 1;
  jfa::Configuration configuration;
  if (jfa::Status status = jfa::supported(configuration); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  configuration.head_dim = 12;
  jfa::Status refused = jfa::supported(configuration);
  std::printf("head_dim 12: %s\n", refused.message().c_str());
  jfa::Result<jfa::Device> device = jfa::Device::open("sim:sm_100a");
  if (!simulator) {
    std::printf("%s\n", device.status().message().c_str());
    return device.status().kind() == jfa::ErrorKind::kUnsupported ? 0 : 1;
  }
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", device.status().message().c_str());
    return 1;
  }
  std::printf("%s builds kernels for %s\n", device->name().c_str(), device->target().c_str());
  return refused.ok() ? 1 : 0;
}
