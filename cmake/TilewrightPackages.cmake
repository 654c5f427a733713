# `cpack` in a finished build makes two Debian packages, tilewright-runtime (the serving library with its
# header) and tilewright (all else), and an archive of both with the libraries that they load.
if(NOT PROJECT_IS_TOP_LEVEL OR NOT TARGET tune-cli)
  return()
endif()

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/PackageOptions.cmake)
set(CPACK_PACKAGE_CONTACT "Tilewright maintainers <maintainers@tilewright.invalid>" CACHE STRING
  "Name and address of whoever answers for the packages")
set(CPACK_PACKAGE_VENDOR Tilewright)
set(CPACK_STRIP_FILES ON)
set(CPACK_SYSTEM_NAME linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_COMPONENTS_ALL runtime tuner)

# The summary is of both packages.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Auto-tuned kernels for tensor operators")
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "The library libtilewright.so with its C interface runs the kernels of a
database. It needs no compiler and no Python.")
set(CPACK_DEBIAN_TUNER_DESCRIPTION "The program tune-cli searches kernels for this machine, checks them and stores
the fastest in one file. Its C++ libraries with their headers come along.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME tilewright-runtime)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_TUNER_PACKAGE_NAME tilewright)
set(CPACK_DEBIAN_TUNER_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TUNER_PACKAGE_DEPENDS "tilewright-runtime (= ${PROJECT_VERSION})")
# Tuning compiles kernels; the static libraries are linked with the suggested ones.
set(CPACK_DEBIAN_TUNER_PACKAGE_RECOMMENDS "gcc, libc6-dev")
set(CPACK_DEBIAN_TUNER_PACKAGE_SUGGESTS "libfmt-dev, nlohmann-json3-dev, libspdlog-dev, libsqlite3-dev, \
libsodium-dev, libcli11-dev, libboost-context-dev, libseccomp-dev, libxgboost-dev")
include(CPack)
