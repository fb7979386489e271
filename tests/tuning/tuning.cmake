# Tuning: classes, records, databases, and what a call takes from them.
jfa_add_test(tuning_test
  SOURCES tuning/class_test.cpp tuning/record_test.cpp command_runner.cpp
  LIBRARIES jfa_tuning jfa_generator jfa_cache
  LABELS host)

jfa_add_test(runtime_tuned_test
  SOURCES runtime/tuned_test.cpp runtime/forward_support.cpp runtime/fake_driver.cpp command_runner.cpp
  LIBRARIES jfa_runtime jfa_tuning jfa_generator jfa_cache jfa_cuda_headers fmt::fmt
  LABELS compiling)

if(TARGET jfa-tune)
  jfa_add_test(tools_tune_test
    SOURCES tools/tune_parts_test.cpp tools/tune_test.cpp command_runner.cpp
    LIBRARIES jfa_tune jfa_tuning jfa_generator jfa_cuda_headers
    LABELS simulator
    TIMEOUT 300)
  target_compile_definitions(tools_tune_test PRIVATE JFA_TOOL="$<TARGET_FILE:jfa>"
                             JFA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(tools_tune_test jfa jfa-bench jfa-tune)
endif()
