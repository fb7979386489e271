# jfa_cuda_headers: where cuda.h, nvrtc.h and NVTX are. JFA_CUDA_INCLUDE_DIR names the folder; unset, an installed
# toolkit is looked for, then the wheels that tools/setup.sh fetches. No CUDA library is linked: both are opened at
# run time, and NVTX is nothing but headers, which may lie elsewhere (JFA_NVTX_INCLUDE_DIR).
set(oldest_cuda 12090)  # as cuda.h counts: 12.9, the first with the sm_100f family targets
set(cuda_wheels ${PROJECT_SOURCE_DIR}/.local/cuda/nvidia/cu13)
find_path(JFA_CUDA_INCLUDE_DIR cuda.h
          HINTS $ENV{CUDA_PATH} $ENV{CUDA_HOME} /usr/local/cuda ${cuda_wheels}
          PATH_SUFFIXES include
          DOC "Folder with cuda.h and nvrtc.h")
if(NOT JFA_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "cuda.h not found: run tools/quickstart, or install a CUDA toolkit, "
                      "or set JFA_CUDA_INCLUDE_DIR")
endif()
file(STRINGS ${JFA_CUDA_INCLUDE_DIR}/cuda.h cuda_version REGEX "^#define CUDA_VERSION [0-9]+$")
string(REGEX MATCH "[0-9]+$" cuda_version "${cuda_version}")
if(cuda_version LESS oldest_cuda)
  message(FATAL_ERROR "${JFA_CUDA_INCLUDE_DIR}/cuda.h has CUDA_VERSION ${cuda_version}; "
                      "${oldest_cuda} or newer is needed")
endif()
find_path(JFA_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
          HINTS ${JFA_CUDA_INCLUDE_DIR} ${cuda_wheels}/include $ENV{CUDA_PATH}/include $ENV{CUDA_HOME}/include
                /usr/local/cuda/include
          DOC "Folder with nvtx3/nvToolsExt.h")
if(NOT JFA_NVTX_INCLUDE_DIR)
  message(FATAL_ERROR "nvtx3/nvToolsExt.h not found: it is part of the CUDA toolkit (package cuda-nvtx) and of "
                      "PyPI's nvidia-nvtx; run tools/quickstart, or set JFA_NVTX_INCLUDE_DIR")
endif()
add_library(jfa_cuda_headers INTERFACE)
target_include_directories(jfa_cuda_headers SYSTEM INTERFACE ${JFA_CUDA_INCLUDE_DIR} ${JFA_NVTX_INCLUDE_DIR})

# Programs of the build tree find the wheels' NVRTC without being told.
if(JFA_CUDA_INCLUDE_DIR STREQUAL "${cuda_wheels}/include")
  list(APPEND CMAKE_BUILD_RPATH ${cuda_wheels}/lib)
endif()
