// The smallest program that uses jfa: includes public headers only and links jfa::jfa only.
//
//   consumer [--without-simulator]
#include <jfa/attention.h>
#include <jfa/version.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

int failures = 0;

void check(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  ++failures;
}

}  // namespace

int main(int argc, char**) {
  const bool simulator = argc == 1;
  check(std::strcmp(jfa::version(), JFA_VERSION_STRING) == 0, "headers and library are of one version");
  std::printf("jfa %s\n", jfa::version_and_commit());
  jfa::Configuration configuration;
  check(jfa::supported(configuration).ok(), "the default configuration is supported");
  configuration.head_dim = 12;
  const jfa::Status refused = jfa::supported(configuration);
  check(refused.message().find("head_dim") != std::string::npos &&
            refused.message().find("12") != std::string::npos,
        "the message names the argument and its value");
  std::printf("head_dim 12: %s\n", refused.message().c_str());
  try {
    refused.or_throw();
    check(false, "an error is thrown");
  } catch (const jfa::Error& error) {
    check(error.status().kind() == refused.kind(), "the error that was thrown");
  }
  const jfa::Result<jfa::Device> device = jfa::Device::open("sim:sm_100a");
  if (simulator) {
    check(device.ok() && device->simulated(), "the simulated device");
  } else {
    check(device.status().kind() == jfa::ErrorKind::kUnsupported, "no simulated device");
    std::printf("%s\n", device.status().message().c_str());
  }
  return failures == 0 ? 0 : 1;
}
