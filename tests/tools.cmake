jfa_add_test(safetensors_test
  SOURCES safetensors_format_test.cpp
  LIBRARIES jfa_safetensors fmt::fmt)
