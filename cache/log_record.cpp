#include "cache/log_record.h"

namespace jfa {

std::string log_record(std::initializer_list<std::string_view> fields) {
  std::string line = "jfa_verbose,1";
  for (const std::string_view field : fields) {
    line += ',';
    for (const char letter : field) {
      if (letter == ',')
        line += ';';
      else
        line += letter == '\n' || letter == '\r' ? ' ' : letter;
    }
  }
  return line;
}

}  // namespace jfa
