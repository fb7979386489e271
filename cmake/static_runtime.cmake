# Programs that need nothing of the machine they run on but its C library: for a GPU machine that has no compiler
# and none of our dependencies. CUDA is opened at run time there as everywhere.
set(OPENSSL_USE_STATIC_LIBS ON)
add_compile_definitions(FMT_HEADER_ONLY)
add_link_options(-static-libstdc++ -static-libgcc LINKER:--as-needed)  # a fmt library that nothing calls is dropped
