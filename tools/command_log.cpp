#include "tools/command_log.h"

#include <fmt/format.h>

#include "base/standard_streams.h"
#include "jfa/log.h"

namespace jfa::tools {

void show_log() {
  // It can only be refused within a callback.
  (void)set_log_callback([](LogLevel level, std::string_view message) {
    say(fmt::format("{}{}\n", level <= LogLevel::kNotice ? "jfa: " : "", message));
  });
}

}  // namespace jfa::tools
