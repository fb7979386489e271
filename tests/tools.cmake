jfa_add_test(safetensors_test
  SOURCES safetensors_format_test.cpp
  LIBRARIES jfa_safetensors fmt::fmt)

jfa_add_test(tools_sweep_test
  SOURCES tools_sweep_test.cpp
  LIBRARIES jfa_sweep jfa_generator fmt::fmt)

jfa_add_test(tools_output_file_test
  SOURCES tools_output_file_test.cpp command_runner.cpp
  LIBRARIES jfa_tool_files)

# Tests of the command itself.
if(TARGET jfa)
  jfa_add_test(tools_run_test
    SOURCES tools_run_test.cpp command_runner.cpp
    LIBRARIES jfa_test_problems jfa_attention_file fmt::fmt
    LABELS simulator)
  jfa_add_test(tools_precompile_test
    SOURCES tools_precompile_test.cpp command_runner.cpp
    LIBRARIES fmt::fmt)
  jfa_add_test(tools_streams_test
    SOURCES tools_streams_test.cpp command_runner.cpp)
  target_compile_definitions(tools_streams_test PRIVATE JFA_SIM_TOOL="$<TARGET_FILE:jfa-sim>")
  add_dependencies(tools_streams_test jfa-sim)
  foreach(name tools_run_test tools_precompile_test tools_streams_test)
    target_compile_definitions(${name} PRIVATE JFA_TOOL="$<TARGET_FILE:jfa>")
    add_dependencies(${name} jfa)
  endforeach()
endif()

# Runs attention problems on a device; for every end-to-end test.
add_library(jfa_attention_harness STATIC attention_harness.cpp backward_harness.cpp guarded_memory.cpp)
target_link_libraries(jfa_attention_harness PRIVATE jfa_options doctest::doctest fmt::fmt
                                            PUBLIC jfa_test_problems jfa::jfa)

jfa_add_test(bug_pool_test
  SOURCES bug_pool_test.cpp
  LIBRARIES jfa_attention_harness fmt::fmt
  LABELS simulator
  TIMEOUT 600)

jfa_add_test(bug_pool_docs_test SOURCES bug_pool_docs_test.cpp command_runner.cpp)

# Not the user's cache: cold at first, warm when repeated.
foreach(name bug_pool_test tools_run_test tools_precompile_test)
  if(TEST ${name})
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT JFA_CACHE_DIR=${PROJECT_BINARY_DIR}/test_cache)
  endif()
endforeach()
