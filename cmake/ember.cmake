# Compiler settings, packages, and the two functions every folder uses: ember_library and ember_test.

find_program(CCACHE ccache)
if(CCACHE)
  # pch_defines,time_macros: what ccache asks for to cache sources that use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

add_library(ember_options INTERFACE)
target_include_directories(ember_options INTERFACE ${CMAKE_SOURCE_DIR})
# -pthread everywhere, so that targets may share a precompiled header.
target_compile_options(ember_options INTERFACE -Wall -Wextra -Wthread-safety -Werror -fno-omit-frame-pointer -pthread
  -Xclang -fno-pch-timestamp)
target_compile_definitions(ember_options INTERFACE EMBER_VERSION="${PROJECT_VERSION}" SPDLOG_FMT_EXTERNAL SPDLOG_COMPILED_LIB)
if(EMBER_SANITIZE)
  add_compile_options(-fsanitize=${EMBER_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${EMBER_SANITIZE})
  # Nobody waits for these builds but CI: several sources at once take less than half the time. Not
  # -O0, which is quicker still: clang 16 miscompiles instrumented coroutines there.
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 6)
endif()
add_link_options(-fuse-ld=lld-16)

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(spdlog REQUIRED)
find_package(simdjson REQUIRED)
find_package(GTest REQUIRED)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
# Older ones can be crashed by whoever they connect to.
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq>=4.3.3)
if(EMBER_GRPC)
  find_package(Protobuf REQUIRED)
  find_package(gRPC CONFIG REQUIRED)
endif()

# ember_library(NAME SOURCES ... LINK ...): one static library a folder, its dependencies spelt out.
function(ember_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ember_options ${ARG_LINK})
endfunction()

# ember_program(NAME SOURCES ... LINK ...): an executable in <build>/bin.
function(ember_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ember_options ${ARG_LINK})
endfunction()

# Sources that run once at start (command lines): CLI11's templates take long to optimise for nothing.
function(ember_cold)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O0 SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# Every test program; what the sanitizer builds build.
add_custom_target(unit_tests)

# ember_test(NAME SOURCES ... LINK ... [PCH TARGET]): a GoogleTest program, one ctest entry each, with
# the precompiled header of TARGET (GoogleTest's by default). The working directory is the source
# root, so tests open tests/vectors by that path.
function(ember_test name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ember_test_support ${ARG_LINK} GTest::gmock GTest::gtest_main)
  if(NOT ARG_PCH)
    set(ARG_PCH ember_test_support)
  endif()
  target_precompile_headers(${name} REUSE_FROM ${ARG_PCH})
  add_dependencies(unit_tests ${name})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900)
endfunction()
