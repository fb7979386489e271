// What one compilation yields, and what one cache entry holds.
#pragma once

#include <map>
#include <string>

namespace jfa {

/// What the compiler reports of one entry.
struct EntryFacts {
  int registers = 0;            // per thread
  int spill_store_bytes = 0;    // per thread
  int spill_load_bytes = 0;     // per thread
  int static_shared_bytes = 0;  // per CTA
  int stack_bytes = 0;          // per thread
  int serialized_products = 0;  // 1: the compiler lets no two wgmma products overlap, for whatever reason
};

struct KernelImage {
  std::string name;                         // of the configuration, for people
  std::string target;                       // "sm_100f", "compute_100f"
  std::string compiler;                     // identity of the compiler that made it
  double compile_ms = 0;                    // of that compilation
  std::string cubin;                        // ELF; empty for a virtual target
  std::string ptx;                          // the same compilation's; empty where it would serve nobody
  std::map<std::string, EntryFacts> facts;  // by entry; empty for a virtual target: ptxas makes them
};

}  // namespace jfa
