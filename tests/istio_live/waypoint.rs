//! The rendered waypoint: where a service's callers meet.

use crate::stock::Rendering;
use crate::{REQUESTS, request, start};
use lab::{Client, Origin, Reply, Result, tokio};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn two_callers_share_one_bucket() -> Result<()> {
    let origin = Origin::holding(50, |_| 503).await;
    let rendering = Rendering::load("waypoint");
    let envoy = start(&rendering, &origin).await?;
    // Each with connections of its own, as pods of two namespaces have them.
    let (web, batch) = (Client::new(), Client::new());
    let (web, batch) =
        tokio::join!(web.storm(envoy.addr(), 25, request), batch.storm(envoy.addr(), 25, |i| request(25 + i)));
    assert_eq!((origin.hits(), web.count(503), batch.count(503)), (60, 25, 25), "{web} {batch}");
    let cluster = rendering.cluster();
    assert_eq!(cluster, "inbound-vip|8080|http|orders.shop.svc.cluster.local");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requests_deadline_cuts_there_too() -> Result<()> {
    let origin = Origin::start(|_| Reply::new(200).after(Duration::from_secs(5))).await;
    let rendering = Rendering::load("waypoint");
    let envoy = start(&rendering, &origin).await?;
    let answer = Client::new().send(envoy.addr(), request(0).header("x-request-deadline-ms", "300")).await?;
    assert_eq!(answer.status, 504, "{}", answer.text());
    assert!(answer.latency >= Duration::from_millis(290), "{:?}", answer.latency);
    assert!(answer.latency < Duration::from_secs(4), "{:?}", answer.latency);
    let cluster = rendering.cluster();
    assert_eq!(envoy.stats().await?.counter(REQUESTS, &[("upstream", &cluster)]), 1);
    Ok(())
}
