// What a command lets its user see of the library's log.
#pragma once

namespace jfa::tools {

/// Warnings, and why something takes long, on stderr; more if JFA_VERBOSE asks for it.
void show_log();

}  // namespace jfa::tools
