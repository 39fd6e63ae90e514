# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where (docs/install.md), and the Debian package. Components:
#
#   runtime       bin/spyre, bin/dxp_standalone and bin/dbo-opt, libexec/spyre/spyre-validation and spyre-flex-tenant, libspyre.so.0, firmware and kernels (lib/spyre),
#                 manual pages, completion
#   development   headers, libspyre.so, CMake package, pkg-config
#   sdk           the kernel SDK (lib/spyre/sdk, libexec/spyre/spyre-pack-kernel)
#
# lib/spyre is not below the folder of the architecture (lib/x86_64-linux-gnu): what is in it runs on the card. Code finds it
# relative to itself (qemu/find_firmware.cpp).
if(SPYRE_SANITIZE OR SPYRE_COVERAGE)
  return()
endif()
include(CMakePackageConfigHelpers)
set(SPYRE_INSTALL_DATADIR lib/spyre)
set(SPYRE_INSTALL_LIBEXECDIR ${CMAKE_INSTALL_LIBEXECDIR}/spyre)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/spyre)

# ---- runtime
install(TARGETS spyre dxp_standalone RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
# A symbolic link, and installed as one: the compiler reads its command line by the name that it is called by.
install(FILES "$<TARGET_FILE_DIR:dxp_standalone>/dbo-opt" DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(TARGETS spyre-validation spyre-flex-tenant RUNTIME DESTINATION ${SPYRE_INSTALL_LIBEXECDIR} COMPONENT runtime)
install(TARGETS spyre_shared EXPORT spyreTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(TARGETS spyre_array LIBRARY DESTINATION ${SPYRE_INSTALL_DATADIR} COMPONENT runtime)
install(FILES "${SPYRE_FIRMWARE_DIR}/spyre-firmware.elf" DESTINATION ${SPYRE_INSTALL_DATADIR} COMPONENT runtime)
# All of them: those that misbehave are what the fault campaign runs.
install(DIRECTORY "${SPYRE_FIRMWARE_DIR}/kernels/" DESTINATION ${SPYRE_INSTALL_DATADIR}/kernels COMPONENT runtime
  FILES_MATCHING PATTERN "*.img" PATTERN "*.json" PATTERN "*.elf"
  PATTERN CMakeFiles EXCLUDE PATTERN "bare_card.elf" EXCLUDE PATTERN "*.dir" EXCLUDE)
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" "${CMAKE_SOURCE_DIR}/CHANGELOG.md"
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/spyre-vp COMPONENT runtime)
# Manual pages: what the programs say of themselves, written when they are installed.
install(CODE "
  file(MAKE_DIRECTORY \"${CMAKE_BINARY_DIR}/install/man1\")
  foreach(program IN ITEMS \"$<TARGET_FILE:spyre>\" \"$<TARGET_FILE:spyre-validation>\")
    execute_process(COMMAND \"\${program}\" __manual \"${CMAKE_BINARY_DIR}/install/man1\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()" COMPONENT runtime)
install(DIRECTORY "${CMAKE_BINARY_DIR}/install/man1" DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT runtime)
set(completion "${CMAKE_SOURCE_DIR}/host_driver/cli/completion")
install(FILES "${completion}/spyre.bash" RENAME spyre
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions COMPONENT runtime)
# The second is where Debian's packages put theirs.
foreach(folder IN ITEMS site-functions vendor-completions)
  install(FILES "${completion}/_spyre" DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/${folder} COMPONENT runtime)
endforeach()

# torch-spyre's runtime interface (docs/torch-spyre.md): one root with include and lib, as its build wants it.
set(flex ${SPYRE_INSTALL_DATADIR}/flex-compat/${SPYRE_FLEX_VERSION})
install(TARGETS flex_shared LIBRARY DESTINATION ${flex}/lib COMPONENT runtime)
install(DIRECTORY "${SPYRE_FLEX_INCLUDE}/" DESTINATION ${flex}/include COMPONENT development)

# ---- development
install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/spyre" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES "${CMAKE_SOURCE_DIR}/toolchain/install/tsan-suppressions.txt" DESTINATION ${SPYRE_INSTALL_DATADIR}
  COMPONENT development)
install(EXPORT spyreTargets NAMESPACE spyre:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file("${CMAKE_SOURCE_DIR}/toolchain/install/spyreConfig.cmake.in"
  "${CMAKE_BINARY_DIR}/install/spyreConfig.cmake" INSTALL_DESTINATION ${package_folder}
  PATH_VARS SPYRE_INSTALL_DATADIR SPYRE_INSTALL_LIBEXECDIR)
# Before 1.0 a minor version may change anything.
write_basic_package_version_file("${CMAKE_BINARY_DIR}/install/spyreConfigVersion.cmake"
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/install/spyreConfig.cmake" "${CMAKE_BINARY_DIR}/install/spyreConfigVersion.cmake"
  DESTINATION ${package_folder} COMPONENT development)
string(REGEX REPLACE "[^/]+" ".." SPYRE_PREFIX_FROM_PKGCONFIG "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
configure_file("${CMAKE_SOURCE_DIR}/toolchain/install/spyre.pc.in" "${CMAKE_BINARY_DIR}/install/spyre.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/install/spyre.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# ---- kernel SDK
set(sdk ${SPYRE_INSTALL_DATADIR}/sdk)
set(kernels "${CMAKE_SOURCE_DIR}/firmware/kernels")
install(FILES "${kernels}/info.hpp" "${kernels}/region_map.hpp" "${kernels}/sdk.hpp" "${kernels}/vector.hpp"
  DESTINATION ${sdk}/include/firmware/kernels COMPONENT sdk)
install(FILES "${kernels}/spyre_kernel.hpp" DESTINATION ${sdk}/include COMPONENT sdk)
foreach(header IN ITEMS dl16 kernel_abi units)
  install(FILES "${CMAKE_SOURCE_DIR}/shared/${header}.hpp" DESTINATION ${sdk}/include/shared COMPONENT sdk)
endforeach()
install(FILES "${kernels}/runtime.cpp" "${kernels}/correction.cpp" DESTINATION ${sdk}/src COMPONENT sdk)
install(FILES "${kernels}/kernel.ld" DESTINATION ${sdk} COMPONENT sdk)
install(FILES "${CMAKE_SOURCE_DIR}/toolchain/libcxx/__config_site" "${CMAKE_SOURCE_DIR}/toolchain/libcxx/__assertion_handler"
  DESTINATION ${sdk}/libcxx COMPONENT sdk)
install(DIRECTORY "${SPYRE_NEWLIB_DIR}/riscv64-unknown-elf/include" DESTINATION ${sdk}/newlib COMPONENT sdk)
install(FILES /usr/share/doc/newlib-source/copyright DESTINATION ${sdk}/newlib COMPONENT sdk OPTIONAL)
install(PROGRAMS "${SPYRE_FIRMWARE_DIR}/kernels/pack_image" DESTINATION ${SPYRE_INSTALL_LIBEXECDIR}
  RENAME spyre-pack-kernel COMPONENT sdk)
install(FILES "${CMAKE_SOURCE_DIR}/toolchain/cmake/card_flags.cmake" "${CMAKE_SOURCE_DIR}/toolchain/cmake/spyre_kernel.cmake"
  DESTINATION ${package_folder} COMPONENT sdk)

# ---- Debian package (cpack -G DEB in the build folder): one package with all components
set(CPACK_PACKAGE_NAME spyre-vp)
set(CPACK_PACKAGE_VENDOR "spyre-vp")
# Debian's Maintainer field wants a text; there is no person and no address to name (SECURITY.md says how to report).
set(CPACK_PACKAGE_CONTACT "whoever built this package (spyre-vp has no address)")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "Boots cards with real RISC-V firmware under QEMU and talks to them through a real userspace\
 driver. Contains the command line (spyre), the compiler of torch-spyre's bundles (dxp_standalone, dbo-opt), the library (libspyre.so, C++20 and C), firmware, kernels and the kernel SDK.")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
# Of the libraries that programs and libspyre.so are linked with; then what they start. Debian 13 and the backports of
# Debian 12 have the emulator in qemu-system-riscv, others in qemu-system-misc.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "qemu-system-riscv (>= 1:9.2) | qemu-system-misc (>= 1:9.2)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libjemalloc2, clang-19, lld-19, libc++-19-dev, gdb-multiarch")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, pkg-config")
include(CPack)
