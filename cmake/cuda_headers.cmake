# jfa_cuda_headers: where cuda.h and nvrtc.h are. JFA_CUDA_INCLUDE_DIR names the folder; unset, an installed
# toolkit is looked for. No CUDA library is linked: both are opened at run time.
find_path(JFA_CUDA_INCLUDE_DIR cuda.h
          HINTS $ENV{CUDA_PATH} $ENV{CUDA_HOME} /usr/local/cuda PATH_SUFFIXES include
          DOC "Folder with cuda.h and nvrtc.h")
if(NOT JFA_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "cuda.h not found: install a CUDA toolkit, or run tools/quickstart, or set JFA_CUDA_INCLUDE_DIR")
endif()
add_library(jfa_cuda_headers INTERFACE)
target_include_directories(jfa_cuda_headers SYSTEM INTERFACE ${JFA_CUDA_INCLUDE_DIR})
