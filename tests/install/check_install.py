#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs into a prefix of its own and builds and runs one consumer in each way that users have.

check_install.py SOURCE_ROOT CONSUMER COMPILER...
Ways: the compiler with pkg-config, CMake's find_package, a Meson dependency from pkg-config, a Meson subproject.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CMAKE = """cmake_minimum_required(VERSION 3.20)
project(consumer CXX)
find_package(heddle {version} REQUIRED)
add_executable(consumer consumer.cpp)
target_link_libraries(consumer PRIVATE heddle::heddle)
"""
MESON = """project('consumer', 'cpp', default_options: ['cpp_std=c++20'])
executable('consumer', 'consumer.cpp', dependencies: dependency('heddle', version: '>={version}'))
"""


def call(arguments, folder, environment, must_fail=False):
    run = subprocess.run([str(a) for a in arguments], cwd=folder, env=environment, capture_output=True, text=True)
    if (run.returncode != 0) != must_fail:
        sys.exit(f"{run.stdout}{run.stderr}\n{arguments} gave {run.returncode}")
    return run.stdout


def main(source, consumer, compiler):
    with tempfile.TemporaryDirectory() as name:
        here = pathlib.Path(name)
        environment = dict(os.environ, CXX=" ".join(compiler))
        for variable in ("DESTDIR", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH", "CPATH", "CXXFLAGS"):
            environment.pop(variable, None)
        call(["meson", "setup", here / "build", source, "-Ddevelopment=false", "--prefix", here / "first"], here, environment)
        call(["meson", "install", "-C", here / "build"], here, environment)

        installed = {path.relative_to(here / "first" / "include").as_posix()
                     for path in here.glob("first/include/**/*") if path.is_file()}
        present = {path.relative_to(source / "include").as_posix() for path in source.glob("include/heddle/**/*.hpp")}
        present |= {f"heddle/{path.relative_to(source).as_posix()}" for path in source.glob("kernels/**/*.cuh")}
        if installed != present or not present:
            sys.exit(f"headers installed and present differ: {sorted(installed ^ present)}")

        pkg_config = dict(environment, PKG_CONFIG_PATH=str(here / "first" / "share" / "pkgconfig"))
        told = call(["pkg-config", "--print-variables", "heddle"], here, pkg_config).split()
        if set(told) - {"pcfiledir"} != {"prefix", "includedir"}:
            sys.exit(f"heddle.pc names {told}; the headers need prefix and includedir alone")
        version = call(["pkg-config", "--modversion", "heddle"], here, pkg_config).strip()
        short = re.match(r"\d+\.\d+", version).group()
        outputs = {}

        def way(title, text=None, build_file=None):
            folder = here / title
            folder.mkdir()
            shutil.copy(consumer, folder / "consumer.cpp")
            if text:
                (folder / build_file).write_text(text.replace("{version}", short))
            return folder

        folder = way("plain")
        flags = call(["pkg-config", "--cflags", "--libs", "heddle"], here, pkg_config).split()
        # No compiler here takes kernels, so what headers and kernels include of them is looked up.
        folders = [pathlib.Path(flag[2:]) for flag in flags if flag.startswith("-I")]
        wanted = {name for path in here.glob("first/include/**/*") if path.is_file()
                  for name in re.findall(r"#include <([^>]+\.cuh)>", path.read_text(encoding="utf-8"))}
        lacking = sorted(name for name in wanted if not any((one / name).is_file() for one in folders))
        if lacking or not wanted:
            sys.exit(f"pkg-config's folders lack {lacking or 'kernels that headers include'}")
        call([*compiler, "-std=c++20", "consumer.cpp", *flags, "-o", "consumer"], folder, environment)
        outputs["plain"] = call(["./consumer"], folder, environment)

        folder = way("meson", MESON, "meson.build")
        call(["meson", "setup", "build"], folder, pkg_config)
        call(["ninja", "-C", "build"], folder, pkg_config)
        outputs["meson"] = call(["build/consumer"], folder, environment)

        folder = way("subproject", MESON, "meson.build")
        (folder / "subprojects").mkdir()
        (folder / "subprojects" / "heddle").symlink_to(source)
        (folder / "subprojects" / "heddle.wrap").write_text("[wrap-file]\ndirectory = heddle\n[provide]\nheddle = heddle_dep\n")
        call(["meson", "setup", "build", "--wrap-mode=forcefallback"], folder, environment)
        call(["ninja", "-C", "build"], folder, environment)
        outputs["subproject"] = call(["build/consumer"], folder, environment)

        if shutil.which("cmake"):
            # From another place, where pkg-config's file could not follow.
            (here / "first").rename(here / "moved")
            folder = way("cmake", CMAKE, "CMakeLists.txt")
            call(["cmake", "-G", "Ninja", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={here / 'moved'}"], folder, environment)
            call(["cmake", "--build", "build"], folder, environment)
            outputs["cmake"] = call(["build/consumer"], folder, environment)
            major, minor = short.split(".")
            (folder / "CMakeLists.txt").write_text(CMAKE.replace("{version}", f"{major}.{int(minor) + 1}"))
            call(["cmake", "-G", "Ninja", "-S", ".", "-B", "later", f"-DCMAKE_PREFIX_PATH={here / 'moved'}"], folder, environment, must_fail=True)

        if len(set(outputs.values())) != 1 or not outputs["plain"].strip():
            sys.exit(f"the consumer must print the same text everywhere: {outputs}")
        print(f"heddle {version}: {', '.join(outputs)} print '{outputs['plain'].strip()}'")
        if "cmake" not in outputs:
            print("skipped: there is no cmake to test its package with")
            sys.exit(77)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:])
