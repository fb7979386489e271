// The CUDA templates, as text: everything under templates/, embedded into the library by the build.
#pragma once

#include <string_view>

namespace jfa {

/// The text of templates/`path`, e.g. "ptx/mbarrier.cuh"; it lives as long as the program.
/// Throws std::out_of_range if no template has that path: a defect in the generator, never the user's.
std::string_view template_text(std::string_view path);

}  // namespace jfa
