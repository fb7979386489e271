jfa_add_test(cache_test
  SOURCES
    cache_bundle_test.cpp
    cache_compiler_identity_test.cpp
    cache_deletion_test.cpp
    cache_entry_test.cpp
    cache_fault_test.cpp
    cache_foreign_test.cpp
    cache_kernel_cache_test.cpp
    cache_options_test.cpp
    cache_process_test.cpp
    cache_refusal_test.cpp
    cache_request_test.cpp
    cache_signals_test.cpp
    cache_stamp_test.cpp
    cache_support.cpp
    cache_trim_test.cpp
  LIBRARIES jfa_cache nlohmann_json::nlohmann_json
  LABELS host
  TIMEOUT 300)

if(TARGET jfa)
  jfa_add_test(cache_command_test
    SOURCES cache_command_test.cpp command_runner.cpp
    LIBRARIES jfa_runtime jfa_cache jfa_generator nlohmann_json::nlohmann_json
    LABELS tools
    TIMEOUT 300)
  target_compile_definitions(cache_command_test PRIVATE JFA_TOOL="$<TARGET_FILE:jfa>"
    JFA_SAMPLES="${PROJECT_SOURCE_DIR}/samples")
  add_dependencies(cache_command_test jfa)
endif()
