// The processor's own fused multiply-add, where it has one.
#pragma once

namespace jfa::simulator {

/// d[i] = a[i] * b[i] + c[i], rounded once, to nearest; every NaN is the device's. d may be one of the
/// others.
using FusedMultiplyAdd = void (*)(float* d, const float* a, const float* b, const float* c, int count);

/// For operands and results as they are, or with subnormals flushed to zero. Null if this processor has no
/// such instruction.
FusedMultiplyAdd fused_multiply_add(bool flush);

}  // namespace jfa::simulator
