// SPDX-License-Identifier: Apache-2.0
// The program for devices, of the host program's sources, as one file: what they share is most of nvcc's work.
#include "main.cpp"
#include "report.cpp"
