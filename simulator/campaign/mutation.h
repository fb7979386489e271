// Mutants of a PTX text: every instruction that synchronises is deleted, its parity flipped, its count
// shifted or its arrival made relaxed, one at a time. A checker that lets such a mutant pass has a hole, or
// the instruction is not needed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace jfa::simulator {

struct SourcePlace {
  int file = 0;  // .file number
  int line = 0;
};

/// An instruction that synchronises.
struct SyncSite {
  std::string entry;
  std::string operation;  // "mbarrier wait", "tcgen05.commit", …
  std::string text;       // the statement, on one line
  int ptx_line = 0;
  std::vector<SourcePlace> source;  // through .loc and its inlined_at, innermost first; empty: unknown
  std::size_t begin = 0, end = 0;   // of the statement in the PTX text
};

struct Mutant {
  std::size_t site = 0;     // index into Mutations::sites
  std::string change;       // "deleted", "parity flipped", "16 bytes more", …
  std::string replacement;  // what stands in the statement's place; on one line, so that PTX lines stay
};

struct Mutations {
  std::vector<SyncSite> sites;  // in the order of the text
  std::vector<Mutant> mutants;  // in the order of their sites
};

/// Errors: kInvalidArgument with the line of what does not parse.
Result<Mutations> enumerate_mutations(const std::string& ptx);

/// The text with another statement at the site.
std::string replace_statement(const std::string& ptx, const SyncSite& site, std::string_view replacement);

/// Stands in for a site's statement and stops the kernel: shows whether a run comes there.
std::string trap_at(const std::string& ptx, const SyncSite& site);

}  // namespace jfa::simulator
