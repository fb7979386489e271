// Lines for programs that read logs.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace jfa {

/// "jfa_verbose,1,<field>,<field>…"; the number is the format's. A comma in a field becomes ';', the end of a
/// line a blank. docs/runtime.md lists the records.
std::string log_record(std::initializer_list<std::string_view> fields);

}  // namespace jfa
