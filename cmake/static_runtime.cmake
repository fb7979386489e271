# Programs and a libjfa.so that need nothing of the machine they run on but its C library: for a GPU machine that has
# no compiler, and for packages of other languages. CUDA is opened at run time there as everywhere.
add_link_options(-static-libstdc++ -static-libgcc)
