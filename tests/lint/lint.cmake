# What `jfa emit --format lint` says: of cubins written by hand, and of our kernels.
if(TARGET jfa)
  jfa_add_test(lint_test SOURCES lint/lint_test.cpp lint/code.cpp LIBRARIES jfa_lint)
  jfa_add_test(lint_golden_test
    SOURCES lint/golden_test.cpp command_runner.cpp
    LIBRARIES jfa_lint jfa_sweep jfa_runtime jfa_generator jfa_strict_json fmt::fmt
    LABELS kernels
    TIMEOUT 600)
  target_compile_definitions(lint_golden_test PRIVATE JFA_TOOL="$<TARGET_FILE:jfa>")
  add_dependencies(lint_golden_test jfa)
endif()
