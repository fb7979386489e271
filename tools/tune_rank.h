// Who is faster: candidates are compared with the defaults round by round, so that a clock that drifts, or a
// neighbour that comes and goes, meets both.
#pragma once

#include <cstddef>
#include <vector>

#include "tuning/record.h"

namespace jfa::tools {

/// A candidate is taken for faster from this ratio on, and only if three quarters of its rounds are.
inline constexpr double kLeastGain = 0.99;
/// What is behind the best one by less than this is as good.
inline constexpr double kAsGood = 0.003;

/// Sets the ratios of `trial`: the quartiles, over the rounds that both took part in, of the geometric mean
/// over all shapes. 0 in `times_ms` is a round that was missed. 0 ratios if there is no such round.
void compare_with(const Trial& defaults, Trial& trial);

/// Whether a candidate of these ratios will not win after so many rounds: its best quarter is behind the
/// leader's median, by less the more rounds there are.
bool is_hopeless(const Trial& trial, double leader_ratio, std::size_t rounds);

/// Which of the trials wins, the defaults first: of the fastest ones, that one whose results are the
/// defaults' bit for bit, then that with the fewest values. Only timed ones win.
std::size_t winner_of(const std::vector<Trial>& trials);

}  // namespace jfa::tools
