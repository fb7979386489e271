// [cpu] Every file under templates/ is embedded, byte for byte.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "generator/templates.h"

namespace fs = std::filesystem;

TEST_CASE("[cpu] the embedded templates are the files") {
  const fs::path root = JFA_TEMPLATE_DIR;
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().lexically_relative(root).generic_string();
    CAPTURE(path);
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    CHECK_FALSE(text.empty());
    CHECK(jfa::template_text(path) == text);
    ++files;
  }
  CHECK(files > 0);
}

TEST_CASE("[cpu] a template that does not exist is named") {
  CHECK_THROWS_WITH_AS(jfa::template_text("sm100/nothing.cu"),
                       "no template is embedded under sm100/nothing.cu", std::out_of_range);
}
