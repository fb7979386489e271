// Errors as values: the public interface's (include/jfa/status.h has to stand alone where it is installed),
// for those who know nothing else of it.
#pragma once

#include "jfa/status.h"  // IWYU pragma: export
