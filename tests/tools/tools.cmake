jfa_add_test(safetensors_test
  SOURCES formats/safetensors_test.cpp
  LIBRARIES jfa_safetensors fmt::fmt)

jfa_add_test(tools_sweep_test
  SOURCES tools/sweep_test.cpp tools/embedding_docs_test.cpp
  LIBRARIES jfa_sweep jfa_generator fmt::fmt)

jfa_add_test(tools_output_file_test
  SOURCES tools/output_file_test.cpp command_runner.cpp
  LIBRARIES jfa_tool_files)

jfa_add_test(tools_doctor_clusters_test
  SOURCES tools/doctor_clusters_test.cpp runtime/fake_driver.cpp ${PROJECT_SOURCE_DIR}/tools/doctor_clusters.cpp
  LIBRARIES jfa_runtime jfa_generator jfa_cuda_headers fmt::fmt)

# Tests of the command itself.
if(TARGET jfa)
  jfa_add_test(tools_run_test
    SOURCES tools/run_test.cpp command_runner.cpp
    LIBRARIES jfa_test_problems jfa_attention_file jfa_version fmt::fmt
    LABELS simulator)
  target_compile_definitions(tools_run_test PRIVATE JFA_SAMPLES="${PROJECT_SOURCE_DIR}/samples")
  jfa_add_test(tools_precompile_test
    SOURCES tools/precompile_test.cpp command_runner.cpp
    LIBRARIES fmt::fmt
    LABELS tools)
  jfa_add_test(tools_log_test
    SOURCES tools/log_test.cpp command_runner.cpp
    LABELS tools)
  jfa_add_test(tools_streams_test
    SOURCES tools/streams_test.cpp command_runner.cpp
    LABELS tools)
  target_compile_definitions(tools_streams_test PRIVATE JFA_SIM_TOOL="$<TARGET_FILE:jfa-sim>")
  add_dependencies(tools_streams_test jfa-sim jfa-bench jfa-conformance)
  jfa_add_test(tools_command_line_test
    SOURCES tools/command_line_test.cpp command_runner.cpp
    LIBRARIES jfa_command_app
    LABELS tools)
  target_compile_definitions(tools_command_line_test PRIVATE JFA_SIM_TOOL="$<TARGET_FILE:jfa-sim>")
  add_dependencies(tools_command_line_test jfa-sim jfa-bench jfa-conformance)
  jfa_add_test(tools_doctor_test
    SOURCES tools/doctor_test.cpp command_runner.cpp
    LIBRARIES jfa_cache jfa_generator nlohmann_json::nlohmann_json
    LABELS tools)
  target_compile_definitions(tools_doctor_test PRIVATE JFA_FAKE_NVRTC_OLD="$<TARGET_FILE:jfa_fake_nvrtc_old>")
  add_dependencies(tools_doctor_test jfa_fake_nvrtc_old)
  foreach(name tools_run_test tools_log_test tools_precompile_test tools_streams_test tools_command_line_test
               tools_doctor_test)
    target_compile_definitions(${name} PRIVATE JFA_TOOL="$<TARGET_FILE:jfa>")
    add_dependencies(${name} jfa)
  endforeach()
endif()
