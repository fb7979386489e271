# What `jfa conformance` runs on a GPU, on the simulator and against a GPU's answers.
if(TARGET jfa_conformance)
  jfa_add_test(conformance_golden_test
    SOURCES conformance/golden_test.cpp
    LIBRARIES jfa_conformance fmt::fmt
    LABELS simulator
    TIMEOUT 300)
  jfa_add_test(conformance_supervisor_test
    SOURCES conformance/supervisor_test.cpp command_runner.cpp
    LIBRARIES jfa_conformance fmt::fmt
    LABELS simulator)
  jfa_add_test(conformance_coverage_test
    SOURCES conformance/coverage_test.cpp command_runner.cpp
    LIBRARIES jfa_conformance fmt::fmt
    LABELS simulator
    TIMEOUT 600)
  foreach(name conformance_supervisor_test conformance_coverage_test)
    target_compile_definitions(${name} PRIVATE JFA_TOOL="$<TARGET_FILE:jfa>")
    add_dependencies(${name} jfa jfa-conformance)
  endforeach()
endif()
