// Which results a NaN or an infinity may reach without being seen. A kernel computes whole tiles and masks
// what lies outside the window, but 0 * NaN is NaN: what docs/design.md promises ends at the rows of a tile.
#pragma once

#include <vector>

#include "reference/reference_backward.h"

namespace jfa::reference {

/// Of every row and head, [rows, heads], whether its result may be NaN or infinite although what it sees is
/// finite. Empty where there is no window: then a tile holds nothing that its rows do not see.
struct WindowReach {
  std::vector<bool> output;
  std::vector<bool> query_grad;
  std::vector<bool> key_grad;  ///< the value's gradient likewise
};

/// Of a forward: `output` alone.
WindowReach window_reach(const Problem& problem);

/// Of a backward that follows its forward: the gradients alone.
WindowReach window_reach(const Problem& problem, const OutputGradients& incoming);

/// Whether an element is not to be judged: it was reached. reach: of one tensor.
bool is_reached(const std::vector<bool>& reach, std::size_t row_and_head, double got, double right);

}  // namespace jfa::reference
