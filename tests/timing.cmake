# The timing model: its parts.
jfa_add_test(timing_test SOURCES timing_test.cpp lint_code.cpp LIBRARIES jfa_timing)
