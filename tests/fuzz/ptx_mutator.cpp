// libFuzzer's mutator for PTX: half of the time it exchanges a word of the text for another word of it or for
// an instruction of the simulator's table, or repeats a line; bytes are changed otherwise.
#include <cctype>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "simulator/decode/instruction_table.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using Random = std::minstd_rand;
using jfa::simulator::InstructionTable;

struct Span {
  std::size_t begin = 0, size = 0;
};

std::vector<Span> words_of(const std::string& text) {
  std::vector<Span> words;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    while (i < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[i])) != 0 ||
            std::strchr("_$%.:", text[i]) != nullptr) &&
           text[i] != '\0')
      ++i;
    if (i > begin) words.push_back({begin, i - begin});
    if (i == begin) ++i;
  }
  return words;
}

std::string random_opcode(Random& random) {
  const auto& rows = InstructionTable::instance().rows();
  const auto& row = rows[random() % rows.size()];
  std::string opcode = row.opcode;
  for (const auto& choices : row.groups) {
    const std::string& choice = choices[random() % choices.size()];
    if (!choice.empty()) opcode += "." + choice;
  }
  return opcode;
}

std::string mutated(std::string text, Random& random) {
  const std::vector<Span> words = words_of(text);
  if (words.empty()) return text;
  const Span& target = words[random() % words.size()];
  switch (random() % 4) {
    case 0:
      return text.replace(target.begin, target.size, random_opcode(random));
    case 1: {
      const std::size_t from = text.rfind('\n', target.begin) + 1;  // npos + 1 is 0
      const std::string line = text.substr(from, text.find('\n', from) - from) + "\n";
      return text.insert(from, line);
    }
    default: {
      const Span& source = words[random() % words.size()];
      return text.replace(target.begin, target.size, text.substr(source.begin, source.size));
    }
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  Random random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text = mutated({reinterpret_cast<const char*>(data), size}, random);
  if (text.size() > max_size) return size;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
