// How many bytes a call moves if it reads and writes every byte of its tensors once.
#pragma once

#include <cstdint>

#include "jfa/attention.h"
#include "runtime/validate.h"
#include "runtime/validate_backward.h"

namespace jfa {

/// Of query, key, value, output, LSE and offsets, all rows; dimensions of stride 0 count once. Less moves if
/// rows belong to no sequence, which only the device knows.
std::uint64_t forward_bytes(const ValidCall& valid, const AttentionCall& call, const Tensor& output,
                            std::uint64_t lse);

/// The same and all gradients.
std::uint64_t backward_bytes(const ValidCall& valid, const AttentionCall& call, const ValidBackward& tensors,
                             std::uint64_t lse_grad);

}  // namespace jfa
