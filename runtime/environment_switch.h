// Environment variables that are 0 or 1.
#pragma once

#include "jfa/status.h"

namespace jfa {

/// Whether the variable is 1; false where it is unset or empty. kInvalidArgument names it and a value that is
/// neither 0 nor 1.
Result<bool> environment_switch(const char* name);

/// Whether machine code is to carry line information: `given`, or JFA_LINE_INFO says so.
Result<bool> wants_line_info(bool given = false);

}  // namespace jfa
