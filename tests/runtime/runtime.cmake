# An NVRTC that is too old for our targets, and one whose companion library is nowhere.
foreach(fake IN ITEMS "old 12 4 90" "without_builtins 99 9 100")
  string(REPLACE " " ";" fake "${fake}")
  list(GET fake 0 kind)
  list(GET fake 1 major)
  list(GET fake 2 minor)
  list(GET fake 3 architecture)
  add_library(jfa_fake_nvrtc_${kind} MODULE runtime/fake_nvrtc.cpp)
  target_link_libraries(jfa_fake_nvrtc_${kind} PRIVATE jfa_cuda_headers)
  target_compile_definitions(jfa_fake_nvrtc_${kind} PRIVATE JFA_FAKE_MAJOR=${major} JFA_FAKE_MINOR=${minor}
                                                            JFA_FAKE_NEWEST_ARCHITECTURE=${architecture})
endforeach()

jfa_add_test(runtime_nvrtc_test
  SOURCES runtime/nvrtc_test.cpp runtime/nvrtc_search_test.cpp command_runner.cpp
  LIBRARIES jfa_runtime jfa_generator jfa_cache jfa_cuda_headers fmt::fmt
  LABELS compiling)
add_dependencies(runtime_nvrtc_test jfa_fake_nvrtc_old jfa_fake_nvrtc_without_builtins)
target_compile_definitions(runtime_nvrtc_test PRIVATE
  JFA_FAKE_NVRTC_OLD="$<TARGET_FILE:jfa_fake_nvrtc_old>"
  JFA_FAKE_NVRTC_WITHOUT_BUILTINS="$<TARGET_FILE:jfa_fake_nvrtc_without_builtins>")

jfa_add_test(runtime_validate_test
  SOURCES runtime/validate_test.cpp
  LIBRARIES jfa_runtime jfa_cuda_headers
  LABELS host)

jfa_add_test(runtime_tensor_maps_test
  SOURCES runtime/tensor_maps_test.cpp
  LIBRARIES jfa_runtime jfa_cuda_headers
  LABELS host)

foreach(subject launch loading device offsets)
  set(label host)
  if(subject STREQUAL loading)  # of an image that is made anew
    set(label compiling)
  endif()
  jfa_add_test(runtime_${subject}_test
    SOURCES runtime/${subject}_test.cpp runtime/forward_support.cpp runtime/fake_driver.cpp
    LIBRARIES jfa_runtime jfa_cuda_headers fmt::fmt
    LABELS ${label})
endforeach()

jfa_add_test(runtime_backward_test
  SOURCES runtime/backward_test.cpp runtime/two_cta_test.cpp runtime/fake_driver.cpp
  LIBRARIES jfa_runtime jfa_cuda_headers fmt::fmt
  LABELS compiling)

jfa_add_test(runtime_cache_test
  SOURCES runtime/cache_test.cpp
  LIBRARIES jfa_runtime
  LABELS host)

jfa_add_test(runtime_log_test
  SOURCES runtime/log_test.cpp cache/support.cpp
  LIBRARIES jfa_runtime jfa_cache)

# Which variables there are, and where they are written down.
jfa_add_test(runtime_variables_test
  SOURCES runtime/variables_test.cpp
  LIBRARIES jfa_runtime)

# What is told of a call: records, and ranges to a tool that NVTX loads.
add_library(jfa_nvtx_tool MODULE runtime/nvtx_tool.cpp)
target_link_libraries(jfa_nvtx_tool PRIVATE jfa_options jfa_cuda_headers)
jfa_add_test(runtime_watch_test
  SOURCES runtime/watch_test.cpp runtime/forward_support.cpp runtime/fake_driver.cpp
  LIBRARIES jfa_runtime jfa_cuda_headers fmt::fmt ${CMAKE_DL_LIBS})
target_compile_definitions(runtime_watch_test PRIVATE JFA_NVTX_TOOL="$<TARGET_FILE:jfa_nvtx_tool>")
add_dependencies(runtime_watch_test jfa_nvtx_tool)

jfa_add_test(runtime_refusal_test
  SOURCES runtime/refusal_test.cpp cache/support.cpp
  LIBRARIES jfa_runtime jfa_cache
  LABELS compiling)

option(JFA_TEST_GPU "Register the tests that need a GPU" OFF)
if(JFA_TEST_GPU)
  jfa_add_test(runtime_gpu_test
    SOURCES runtime/gpu_test.cpp
    LIBRARIES jfa_runtime jfa_cuda_headers ${CMAKE_DL_LIBS}
    LABELS gpu)
  jfa_add_test(runtime_two_gpu_test
    SOURCES runtime/two_gpu_test.cpp
    LIBRARIES jfa_attention_harness jfa_cuda_headers
    LABELS 2gpu)
  jfa_add_test(runtime_big_test
    SOURCES runtime/big_test.cpp
    LIBRARIES jfa_attention_harness jfa_cuda_headers
    LABELS big)
endif()
