// Four warps load tiles into two buffers in shared memory while four others work on them. Named barriers pass the buffers
// on: barriers 1 and 2 say that a buffer is full, 3 and 4 that it is empty. Who only signals does not wait (bar.arrive).
constexpr int HALF = 128;
constexpr int THREADS = 2 * HALF;
constexpr int FULL = 1;
constexpr int EMPTY = 3;

__device__ void wait_at(int barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

__device__ void arrive_at(int barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

__global__ void __launch_bounds__(THREADS) scale_tiles(const float4* __restrict__ in, float4* __restrict__ out, int tiles) {
    __shared__ float4 buffer[2][HALF];
    int lane = threadIdx.x % HALF;
    if (threadIdx.x < HALF) {
        for (int tile = 0; tile < tiles; ++tile) {
            int stage = tile % 2;
            wait_at(EMPTY + stage);
            buffer[stage][lane] = in[tile * HALF + lane];
            arrive_at(FULL + stage);
        }
    } else {
        arrive_at(EMPTY);
        arrive_at(EMPTY + 1);
        for (int tile = 0; tile < tiles; ++tile) {
            int stage = tile % 2;
            wait_at(FULL + stage);
            float4 value = buffer[stage][lane];
            arrive_at(EMPTY + stage);
            value.x *= 2.0f;
            value.y *= 2.0f;
            value.z *= 2.0f;
            value.w *= 2.0f;
            out[tile * HALF + lane] = value;
        }
    }
}
