#include <jfa/attention.h>

#include <cstdio>

#include "host.h"

int main() {
  jfa::Configuration configuration;
  configuration.head_dim = 12;
  const jfa::Status refused = jfa::supported(configuration);
  std::printf("%s\n%s\n%s\n", host_text().c_str(), host_json().c_str(), refused.message().c_str());
  if (host_text() != "the host's fmt" || host_json() != R"({"host":1.5})") return 1;
  if (refused.message().find("head_dim") == std::string::npos) return 2;
  return jfa::Device::open("sim:sm_100a").ok() ? 0 : 3;
}
