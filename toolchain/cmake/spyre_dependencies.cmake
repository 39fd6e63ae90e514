# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, all from the distribution (scripts/bootstrap). Targets to name in DEPS:
#   deps_uring  deps_hwy  deps_isal (ISA-L)  deps_fmt  deps_cli (CLI11)  deps_json (nlohmann)  deps_mustache (kainjow)
#   deps_rapidcheck (with its GoogleTest glue)  deps_benchmark  Threads::Threads
# GoogleTest and GoogleMock come with spyre_test.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)

# These ship package files that differ between releases of the distribution, or none; header and library do not.
function(spyre_find_library name header libraries)
  find_path(${name}_INCLUDE_DIR "${header}" REQUIRED)
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE "${${name}_INCLUDE_DIR}")
  foreach(library IN LISTS libraries)
    find_library(${name}_${library}_LIBRARY "${library}" REQUIRED)
    target_link_libraries(${name} INTERFACE "${${name}_${library}_LIBRARY}")
  endforeach()
endfunction()
spyre_find_library(deps_uring liburing.h uring)
spyre_find_library(deps_hwy hwy/highway.h hwy)
spyre_find_library(deps_isal isa-l/crc.h isal)
spyre_find_library(deps_mustache kainjow/mustache.hpp "")
function(spyre_wrap_library name)
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE ${ARGN})
endfunction()
spyre_wrap_library(deps_fmt fmt::fmt)
spyre_wrap_library(deps_cli CLI11::CLI11)
spyre_wrap_library(deps_json nlohmann_json::nlohmann_json)

# Nothing of the product needs these.
if(SPYRE_BUILD_TESTS)
  find_package(GTest REQUIRED CONFIG)
  find_package(benchmark REQUIRED CONFIG)
  spyre_wrap_library(deps_benchmark benchmark::benchmark)
  spyre_find_library(deps_rapidcheck rapidcheck.h rapidcheck)
  # Its headers use std::aligned_storage, which C++23 deprecates and libstdc++ 14 warns of, in our instantiations.
  target_compile_options(deps_rapidcheck INTERFACE -Wno-deprecated-declarations)
endif()
