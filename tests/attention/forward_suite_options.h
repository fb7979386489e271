// What the command line asks of the forward suite.
#pragma once

#include <cstddef>
#include <optional>

namespace jfa::test {

struct SuiteOptions {
  bool all = false;       // 400 kernels, every schedule
  std::size_t shard = 0;  // this process runs the kernels whose number modulo `shards` is `shard`
  std::size_t shards = 1;
  std::optional<std::size_t> only_case;
  bool list = false;
};

SuiteOptions& suite_options();

}  // namespace jfa::test
