//! How does a watch read a complete list, and the version of its kind?

use kube::Error;
use kube::api::ListParams;
use kube::core::Resource;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Outlet;
use super::decode::{BadObject, Decoded, Page};
use super::run::Watch;
use crate::runtime::call::{CallError, call};
use crate::runtime::clock;

impl Watch {
    /// Reads every page of one list, and returns its objects and the version to watch from.
    pub(super) async fn list<K, F, E>(&self, outlet: &mut Outlet<K, F, E>) -> Result<(Vec<F>, Vec<BadObject>, String), CallError>
    where
        K: Resource + Clone + DeserializeOwned,
    {
        let mut params = self.objects(self.config.page_size);
        let (mut objects, mut bad) = (Vec::new(), Vec::new());
        // The request of the next page; dropping the list aborts it.
        let mut asked = JoinSet::new();
        asked.spawn(self.page(&params)?);
        let version = loop {
            let Some(answer) = asked.join_next().await else { return Err(CallError::Other("no page was requested".to_owned())) };
            let mut page = answer.map_err(|error| CallError::Other(error.to_string()))??;
            let version = page.metadata.resource_version.take();
            params.continue_token = page.metadata.continue_.take().filter(|token| !token.is_empty());
            // The server makes the next page while this one is decoded.
            if params.continue_token.is_some() {
                asked.spawn(self.page(&params)?);
            }
            for object in page.objects() {
                match object.map_err(Error::SerdeError)? {
                    Decoded::Good(object) => objects.push((outlet.keep)(object)),
                    Decoded::Bad(object) => bad.push(object),
                }
            }
            if params.continue_token.is_none() {
                break version.unwrap_or_default();
            }
        };
        if version.is_empty() {
            return Err(CallError::Other("a list without resourceVersion".to_owned()));
        }
        let bad_count = u64::try_from(bad.len()).unwrap_or(u64::MAX);
        self.metrics.bad(self.config.resource, bad_count);
        Ok((objects, bad, version))
    }

    /// Sends the request of one page of a list.
    fn page(&self, params: &ListParams) -> Result<impl Future<Output = Result<Page, CallError>> + Send + use<>, CallError> {
        let request = if self.metadata_only { self.request.list_metadata(params) } else { self.request.list(params) };
        let (request, client, limit) = (request.map_err(Error::BuildRequest)?, self.client.clone(), self.config.limit);
        Ok(async move { call(limit, client.request(request)).await })
    }

    /// Asks for the version that the cluster has reached, with a list of one object, which passes etcd. The answer has the time before it
    /// was sent; there is none if the request fails.
    pub(super) fn version_of_kind(&self) -> Result<impl Future<Output = Option<(String, Instant)>> + Send + use<>, CallError> {
        let sent = clock::through_suspension();
        let page = self.page(&self.objects(1))?;
        Ok(async move { Some((page.await.ok()?.metadata.resource_version?, sent)) })
    }

    /// Returns the parameters of a list of the watched objects, with this many in a page.
    fn objects(&self, page_size: u32) -> ListParams {
        ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit: Some(page_size),
            ..ListParams::default()
        }
    }
}
