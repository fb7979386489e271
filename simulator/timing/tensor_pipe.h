// How long products take: the pipe of tcgen05.mma, fitted to published measurements of a B200.
#pragma once

#include <cstdint>
#include <string>

namespace jfa::simulator::timing {

/// One tcgen05.mma. K is such that a row of an operand has 32 bytes.
struct ProductShape {
  int m = 0, n = 0;  // of the whole product; of a pair's, both CTAs' rows
  int cta_group = 1;
  bool a_in_tensor_memory = false;  // TS, else SS
  enum class Kind : std::uint8_t { floating, integer, scaled } kind = Kind::floating;
};

struct ProductTime {
  double interval = 0;      // until the next product may start: what the pipe is kept busy
  double latency = 0;       // from the start of a product alone to its commit's arrival
  double shared_bytes = 0;  // that it reads of each CTA's shared memory
};

/// The SM's shared memory gives `shared_bytes` a cycle.
ProductTime product_time(const ProductShape& shape, double shared_bytes);

/// The laws as text, for the hash of the constants.
std::string product_laws_text();

}  // namespace jfa::simulator::timing
