jfa_add_test(cache_test
  SOURCES
    cache/bundle_test.cpp
    cache/compiler_identity_test.cpp
    cache/deletion_test.cpp
    cache/entry_test.cpp
    cache/fault_test.cpp
    cache/foreign_test.cpp
    cache/kernel_cache_test.cpp
    cache/options_test.cpp
    cache/process_test.cpp
    cache/refusal_test.cpp
    cache/request_test.cpp
    cache/signals_test.cpp
    cache/stamp_test.cpp
    cache/support.cpp
    cache/trim_test.cpp
  LIBRARIES jfa_cache nlohmann_json::nlohmann_json
  LABELS host
  TIMEOUT 300)

if(TARGET jfa)
  jfa_add_test(cache_command_test
    SOURCES cache/command_test.cpp command_runner.cpp
    LIBRARIES jfa_runtime jfa_cache jfa_generator nlohmann_json::nlohmann_json
    LABELS tools
    TIMEOUT 300)
  target_compile_definitions(cache_command_test PRIVATE JFA_TOOL="$<TARGET_FILE:jfa>"
    JFA_SAMPLES="${PROJECT_SOURCE_DIR}/samples")
  add_dependencies(cache_command_test jfa)
endif()
