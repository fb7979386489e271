# jfa::shared: libjfa.so, which has all of jfa and of the libraries in it. It needs libc and libstdc++, with
# JFA_STATIC_RUNTIME libc alone.
add_library(jfa_shared SHARED $<TARGET_OBJECTS:jfa_c_api>)
add_library(jfa::shared ALIAS jfa_shared)
set_target_properties(jfa_shared PROPERTIES
  OUTPUT_NAME jfa VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/c_api.map)
target_include_directories(jfa_shared INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(jfa_shared PRIVATE jfa_options jfa_runtime)
target_link_options(jfa_shared PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/runtime/c_api.map)
