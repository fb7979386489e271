# Problems with known answers, shared by the tests of the reference and of the kernels.
add_library(jfa_test_problems STATIC problems.cpp closed_forms.cpp)
target_link_libraries(jfa_test_problems PRIVATE jfa_test_options fmt::fmt PUBLIC jfa_reference)

jfa_add_test(reference_test
  SOURCES reference_backward_test.cpp reference_closed_form_test.cpp reference_compare_test.cpp
  LIBRARIES jfa_test_problems jfa_reference)
