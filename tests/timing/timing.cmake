# The timing model's parts.
if(TARGET jfa_timing)
  jfa_add_test(timing_test SOURCES timing/timing_test.cpp lint/code.cpp LIBRARIES jfa_timing)
endif()
