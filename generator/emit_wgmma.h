// The PTX wrappers of wgmma products: an instruction of its own, with as many operands, for every width.
#pragma once

#include <string>

namespace jfa {

/// CUDA text of wgmma_ss() or wgmma_rs() for `columns` columns, a multiple of 8 up to 256.
std::string wgmma_ss_text(int columns);  // both operands in shared memory
std::string wgmma_rs_text(int columns);  // the left one in registers

}  // namespace jfa
