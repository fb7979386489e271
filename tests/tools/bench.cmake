if(TARGET jfa)
  jfa_add_test(tools_bench_test
    SOURCES tools/bench_test.cpp command_runner.cpp
    LIBRARIES jfa_bench_shapes nlohmann_json::nlohmann_json fmt::fmt
    LABELS simulator
    TIMEOUT 300)
  target_compile_definitions(tools_bench_test PRIVATE JFA_TOOL="$<TARGET_FILE:jfa>")
  add_dependencies(tools_bench_test jfa jfa-bench)
endif()
