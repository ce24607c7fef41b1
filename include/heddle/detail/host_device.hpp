// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks what runs on the host and in device code alike; nothing where no CUDA compiler reads the file.
#if defined(__CUDACC__)
#define HEDDLE_HOST_DEVICE __host__ __device__
#else
#define HEDDLE_HOST_DEVICE
#endif
