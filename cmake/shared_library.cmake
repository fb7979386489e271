# jfa_shared: libjfa.so. Named jfa::shared in the installed package.
add_library(jfa_shared SHARED ${PROJECT_SOURCE_DIR}/runtime/c_api.cpp)
set_target_properties(jfa_shared PROPERTIES
  OUTPUT_NAME jfa EXPORT_NAME shared VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/c_api.map)
target_compile_definitions(jfa_shared PRIVATE JFA_VERSION="${PROJECT_VERSION}")
target_include_directories(jfa_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(jfa_shared PRIVATE jfa_options jfa_runtime fmt::fmt)
target_link_options(jfa_shared PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/runtime/c_api.map)
