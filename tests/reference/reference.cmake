# Problems with known answers, shared by the tests of the reference and of the kernels.
add_library(jfa_test_problems STATIC reference/problems.cpp reference/closed_forms.cpp)
target_link_libraries(jfa_test_problems PRIVATE jfa_test_options fmt::fmt PUBLIC jfa_reference)

jfa_add_test(reference_test
  SOURCES reference/backward_test.cpp reference/closed_form_test.cpp reference/compare_test.cpp
  LIBRARIES jfa_test_problems jfa_reference)
