// One access of shared memory per kernel that lanes make with another pattern, for comparison with the counters of a GPU:
// see gpu_cuda_facts.py. Each stores without conflict, waits, and loads as its name says.
#define LANES 32

extern "C" __global__ void __launch_bounds__(32) stride_two(const float* in, float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    tile[threadIdx.x + 32] = in[threadIdx.x + 32];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x * 2];
}

extern "C" __global__ void __launch_bounds__(32) stride_three(const float* in, float* out) {
    __shared__ float tile[96];
    for (int i = threadIdx.x; i < 96; i += LANES) tile[i] = in[i];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x * 3];
}

extern "C" __global__ void __launch_bounds__(32) stride_eight(const float* in, float* out) {
    __shared__ float tile[256];
    for (int i = threadIdx.x; i < 256; i += LANES) tile[i] = in[i];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x * 8];
}

extern "C" __global__ void __launch_bounds__(32) column_of_sixteen(const float* in, float* out) {
    __shared__ float tile[32][16];
    for (int i = threadIdx.x; i < 512; i += LANES) tile[i / 16][i % 16] = in[i];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x][3];
}

extern "C" __global__ void __launch_bounds__(32) column_of_seventeen(const float* in, float* out) {
    __shared__ float tile[32][17];
    for (int i = threadIdx.x; i < 512; i += LANES) tile[i / 16][i % 16] = in[i];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x][3];
}

extern "C" __global__ void __launch_bounds__(32) column_of_doubles(const double* in, double* out) {
    __shared__ double tile[32][32];
    for (int i = threadIdx.x; i < 1024; i += LANES) tile[i / 32][i % 32] = in[i];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x][5];
}

extern "C" __global__ void __launch_bounds__(32) column_of_shorts(const short* in, short* out) {
    __shared__ short tile[32][32];
    for (int i = threadIdx.x; i < 1024; i += LANES) tile[i / 32][i % 32] = in[i];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x][7];
}

extern "C" __global__ void __launch_bounds__(32) exclusive_or(const float* in, float* out) {
    __shared__ float tile[32][32];
    for (int i = threadIdx.x; i < 1024; i += LANES) tile[i / 32][(i % 32) ^ (i / 32)] = in[i];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x][4 ^ threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(32) one_word(const float* in, float* out) {
    __shared__ float tile[32];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x / 32];
}

extern "C" __global__ void __launch_bounds__(32) rows_of_four(const float4* in, float4* out) {
    __shared__ float4 tile[32][8];
    for (int i = threadIdx.x; i < 256; i += LANES) tile[i / 8][i % 8] = in[i];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x][1];
}
